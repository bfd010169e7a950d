package breaker

// Made lists the statements that are not constants, for schematest.CheckStatements.
var Made = map[string]string{"outages": outages}
