//go:build race

package ucx

// rssAllowance is the growth of memory that thousands of rounds may leave: the race
// detector keeps some for every byte that was touched.
const rssAllowance = 96 << 20
