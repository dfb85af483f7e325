// Package peernet connects the tasks of a worker to the other processes of its cluster: the network and the settings
// with which clients inside tasks dial, and channels, which are comms between workers, for example for cliques. A
// worker creates one [Peers] and stores it in its task.Host, so that package task needs no network.
package peernet
