// Package doctor finds what a machine lacks for fast communication and says
// how to fix it. Every check is a function of a [Host], which is a picture of
// the machine (files, environment, limits, the UCX library found), so each is
// tested without root, containers, GPUs or RDMA hardware.
package doctor
