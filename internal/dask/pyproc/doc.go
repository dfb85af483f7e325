// Package pyproc runs Python children: it finds an interpreter, starts a module of the
// embedded millstream package in it, shuts it in where asked, speaks with it, and starts
// it again when it dies.
//
//	python, err := pyproc.Find(ctx, "")
//	p, err := pyproc.Start(ctx, pyproc.Config{Python: python.Path, Module: "millstream.materialiser", Isolate: true})
//	reply, err := p.Call(ctx, "materialise", body, frames)
//
// A message has a msgpack map and any number of raw frames; many calls are in flight at
// once, in both directions: see internal/dask/python/millstream/_child.py for the format and for the
// other end. The bytes of a child are not trusted: lengths are bounded, memory is taken by
// what has come and not by what was promised, and a child that breaks the format is killed.
//
// Process is one child, Supervisor one that is there when it is needed, Pool several
// that each belong to one owner.
package pyproc
