// Package inproc carries comms between goroutines of one process: the scheme inproc://.
// Messages are handed over, not copied. Importing it registers it with package comm.
package inproc
