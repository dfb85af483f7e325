// Package member makes a process that is not a Millstream worker a rank of a clique. It is the part of libmillstream
// below the C interface.
//
// A member has what a worker has for its cliques: a listener for the channels of other ranks and the functions of
// package clique. Forming takes three steps, of which the second is local:
//
//	m, contact, err := member.Open(ctx, member.Config{ID: id}) // on every rank; the caller exchanges contacts
//	ticket, err := member.Ticket(contacts)                     // the same on every rank
//	err = m.Join(ctx, ticket)                                  // waits for all ranks
//
// Contacts and tickets are text, so that Dask, MPI or a file can carry them.
package member
