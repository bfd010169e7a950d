// Package tables puts what operators look at into tables of text: the command line prints them, and the console's pages
// show them. The first row of a table is its heading. Texts may come from outside; whoever shows them escapes them.
package tables
