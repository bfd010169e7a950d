package account

// Made lists the statements that are not constants, for schematest.CheckStatements.
var Made = map[string]string{"day sums": daySums, "account day sums": accountDaySums, "skipped sums": sumSkipped}
