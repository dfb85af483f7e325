// Package benchpeer runs the programs with which the benchmarks compare Millstream: ucx_perftest of UCX and the Python
// package UCXX. Each runs as two processes on the loopback interface with the environment of the setting under test.
package benchpeer
