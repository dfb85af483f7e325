// Package benchpeer runs the programs that Millstream's benchmarks compare
// with: UCX's own ucx_perftest and the Python package UCXX. Each runs as two
// processes on the loopback interface with the environment of the setting
// under test, and hands back plain numbers.
package benchpeer
