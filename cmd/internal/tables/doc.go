// Package tables formats data as tables of text, for the command line and the console. The first row of a table
// contains the headings. Texts may come from other systems, so the caller must escape them.
package tables
