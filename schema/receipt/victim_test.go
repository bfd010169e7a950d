//go:build !pawlhooks

package receipt_test

func victim() bool { return false }
