// Package inproc carries comms between goroutines of one process: the scheme inproc://. Messages are passed, not
// copied. Importing it registers it with package comm.
package inproc
