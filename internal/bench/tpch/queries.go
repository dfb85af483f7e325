package tpch

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed queries
var queries embed.FS

// Queries is the number of queries.
const Queries = 22

// Query returns the text of a query, from 1, with the parameters of the specification's validation run.
func Query(n int, factor float64) string {
	b, err := queries.ReadFile(fmt.Sprintf("queries/q%02d.sql", n))
	if err != nil {
		panic(fmt.Sprintf("tpch: no query %d", n))
	}
	return strings.ReplaceAll(string(b), "{fraction}", strconv.FormatFloat(0.0001/factor, 'f', -1, 64))
}
