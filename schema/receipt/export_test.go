package receipt

// Made are the statements that are no constants, for schematest.CheckStatements.
var Made = map[string]string{"insert": insertSQL, "insert unsigned": insertUnsignedSQL}
