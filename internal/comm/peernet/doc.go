// Package peernet is how the tasks of a worker reach the other processes of its cluster: the network and the settings
// by which clients inside of tasks dial, and channels, which are comms between workers for what works among them, such
// as cliques. A worker makes one [Peers] and puts it into its task.Host, so that package task needs no network.
package peernet
