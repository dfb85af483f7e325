// Package peermem lets a process read results from the memory of another process of its machine, with
// process_vm_readv(2), instead of receiving them through a connection.
//
// The reader adds a [Request] with a random token to get_data. The owner of the results replies with a [Loan]: its
// process ID, the address of a copy of the token, and the addresses of large frames, which are then not part of the
// message. The reader finds its token at that address, which proves that the process is its peer, copies the frames,
// and checks the token again. The owner erases the copy of the token before it releases the memory, so a reader that
// still finds it has read valid data. The acknowledgement of get_data ends the loan.
//
// The kernel permits such reads to processes of the same user that may trace each other. If it does not, the reader
// repeats its request without a token and remembers the peer.
package peermem
