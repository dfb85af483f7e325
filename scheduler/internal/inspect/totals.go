package inspect

// Totals are counts since the start.
type Totals struct {
	WorkersAdded, WorkersRemoved, ClientsAdded, ClientsRemoved, Ticks int64
}
