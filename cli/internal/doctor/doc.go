// Package doctor finds what a machine lacks for fast communication and how to fix it. Every check is a function of a
// [Host], a description of the machine (files, environment, limits, the UCX library found), so that it can be tested
// without root, containers, GPUs or RDMA hardware.
package doctor
