package sqlplan

import (
	"testing"

	"go.millstream.dev/internal/bench/tpch"
)

// TestShapes checks the order of joins of the TPC-H queries at scale factor 1. A prime marks a table with conditions.
func TestShapes(t *testing.T) {
	for n, want := range map[int]string{
		1: "γlineitem'",
		2: "(((partsupp ⋈ part') ⋈ (supplier ⋈ (nation ⋈ region'))) ⋈ " +
			"γ((partsupp ⋉ part') ⋈ (supplier ⋈ (nation ⋈ region'))))",
		3:  "γ(lineitem' ⋈ (orders' ⋈ customer'))",
		4:  "γ(orders' ⋉ lineitem')",
		5:  "γ((lineitem ⋈ (customer ⋈ orders')) ⋈ (supplier ⋈ (nation ⋈ region')))",
		6:  "γlineitem'",
		7:  "γ((orders ⋈ (lineitem' ⋈ (supplier ⋈ nation'))) ⋈ (customer ⋈ nation'))",
		8:  "γ(((lineitem ⋈ (orders' ⋈ (customer ⋈ (nation ⋈ region')))) ⋈ part') ⋈ (supplier ⋈ nation))",
		9:  "γ(orders ⋈ (partsupp ⋈ ((lineitem ⋈ part') ⋈ (supplier ⋈ nation))))",
		10: "γ((customer ⋈ (lineitem' ⋈ orders')) ⋈ nation)",
		11: "(γ(partsupp ⋈ (supplier ⋈ nation')) × γ(partsupp ⋈ (supplier ⋈ nation')))",
		12: "γ(orders ⋈ lineitem')",
		13: "γγ(customer ⟕ orders')",
		14: "γ(lineitem' ⋈ part)",
		15: "(supplier ⋈ (γlineitem' × γγlineitem'))",
		16: "γ((partsupp ⋈ part') ▷ supplier')",
		17: "γ((lineitem ⋈ part') ⋈ γ(lineitem ⋉ part'))",
		18: "γ(lineitem ⋈ ((orders ⋉ γlineitem) ⋈ customer))",
		19: "γ(lineitem' ⋈ part')",
		20: "((supplier ⋈ nation') ⋉ ((partsupp ⋉ part') ⋈ γ(lineitem' ⋉ (partsupp ⋉ part'))))",
		21: "γ((((lineitem' ⋈ (supplier ⋈ nation')) ⋈ orders') ⋉ lineitem) ▷ lineitem')",
		22: "γ((customer' × γcustomer') ▷ orders)",
	} {
		if got := shape(lower(t, tpch.Query(n, 1), tpchCatalog(1))); got != want {
			t.Errorf("query %d:\n got %s\nwant %s", n, got, want)
		}
	}
}
