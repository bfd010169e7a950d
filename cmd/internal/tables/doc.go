// Package tables formats the data that operators read as tables of text, for the command line and the console. The
// first row of a table is its heading. Texts may come from outside; the caller must escape them.
package tables
