//go:build !race

package ucx

// rssAllowance is the growth of memory that thousands of rounds may leave.
const rssAllowance = 24 << 20

// underRace tells that the race detector is in this program.
const underRace = false
