// Package collbench measures all-reduce among the processes of one host: Millstream's engine, and Open MPI and Gloo
// beside it; and on the memory of one GPU, through cliques, with a loop in C around NCCL beside them.
//
// A competitor is started anew for each round, as a program that measures every size and prints a line of JSON for
// each: its processes may spin while they wait, and must not do so in another's round.
package collbench
