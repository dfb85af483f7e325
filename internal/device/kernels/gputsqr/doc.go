// Package gputsqr reduces rows on a GPU as package tsqr does on the CPU, with the kernels of tsqr.cu: it is an engine
// of tsqr.Summarize. Columns stay where they are, in any type of numbers; all computation is in float64.
package gputsqr
