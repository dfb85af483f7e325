//go:build !race

package hostile

// workerMemory is the factor of the memory of a program that is built with the race detector.
const workerMemory = 1
