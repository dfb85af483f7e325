// Package store keeps the results of a worker: in memory while there is room, otherwise on disk. Any number of
// goroutines may use it.
//
//	s, err := store.New(store.Config{Target: 600 << 20, Dir: dir})
//	s.Put(key, value, size)
//	if e := s.Hold(key); e != nil {
//		v, err := e.Open() // reads it back if it was on disk
//		…
//		s.Release(e)
//	}
//	s.Delete(key)
//
// Entries are reference-counted: a value that is deleted while it is held is freed with its last reference. The least
// recently used value that is not held is spilled first. A value that was read back keeps its file, so that dropping it
// from memory again costs nothing.
//
// # Blocking
//
// Put, Hold, Release and Delete never wait for the disk: a worker calls them in the goroutine that owns its state. A
// goroutine of the store writes. Producers of data call MakeRoom before Put, which slows them down to the speed of the
// disk.
//
// # Device memory
//
// With Config.Device, results that were made on a device stay there up to a limit; the least recently used that are not
// held are moved to host memory, and from there to disk. Open moves a result back. Producers of data on the device call
// MakeRoomFor, so that it never has more than the limit and the data just made.
//
// # Full disks
//
// Values that cannot be written stay in memory, and the error names the fix. MakeRoom returns the error to producers
// whose data would not fit into memory either: their task can run elsewhere.
//
// # Files
//
// Each value is a file with magic, version and checksums. The files are in a directory of the store below Config.Dir,
// which is created on first use and removed by Close; directories of killed processes are removed by the next store
// that creates one.
package store
