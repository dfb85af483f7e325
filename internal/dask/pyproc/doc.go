// Package pyproc runs Python child processes: it finds an interpreter, starts a module of the embedded millstream
// package in it, optionally in a sandbox, exchanges messages with it, and restarts it when it ends.
//
//	python, err := pyproc.Find(ctx, "")
//	p, err := pyproc.Start(ctx, pyproc.Config{Python: python.Path, Module: "millstream.materializer", Isolate: true})
//	reply, err := p.Call(ctx, "materialize", body, frames)
//
// A message has a msgpack map and any number of raw frames; many calls can be in flight in both directions: see
// internal/dask/python/millstream/_child.py for the format and for the other end. The messages of a child are not
// trusted: lengths are bounded, memory is allocated for received bytes and not for announced ones, and a child that
// violates the format is killed.
//
// Process is one child, Supervisor restarts a child on demand, Pool has several children that each belong to one owner.
package pyproc
