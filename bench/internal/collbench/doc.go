// Package collbench measures all-reduce among the processes of one host: with package collective, Open MPI and Gloo,
// and on the memory of one GPU with cliques and with a loop in C around NCCL.
//
// A competitor is started again for each round, as a program that measures every size and prints a line of JSON for
// each: its processes may poll while they wait, which would disturb rounds of others.
package collbench
