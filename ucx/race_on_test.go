//go:build race

package ucx

// rssAllowance is the growth of memory that thousands of rounds may leave: the race
// detector keeps some for every byte that was touched.
const rssAllowance = 96 << 20

// underRace tells that the race detector is in this program.
const underRace = true
