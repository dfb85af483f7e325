// Package ucxbench measures package ucx between two processes of this host. The parent (see [Run]) starts two children
// per setting, because UCX reads its environment once per process. It sends them requests over their standard input and
// output, runs the peers of package benchpeer in alternation, and reports the best of all rounds.
package ucxbench
