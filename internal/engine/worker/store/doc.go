// Package store keeps a worker's results: in memory while there is room, on disk when there
// is not. Any number of goroutines may use it.
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
// Values are held by counted entries: one that is deleted while somebody holds it goes away
// with its last holder. The least recently used value that nobody holds is the first to go
// to disk. A value that was read back keeps its file, so that it costs nothing to let go of
// it again.
//
// # Who waits for the disk
//
// Put, Hold, Release and Delete never do: a worker calls them in the goroutine that owns its
// state. A goroutine of the store writes. Those who make data call MakeRoom before they hand
// it over, and are slowed down to the speed of the disk.
//
// # Above the host's memory
//
// With Config.Device results that were made on a device stay there up to a limit; the least
// recently used that nobody holds go to the host's memory, and from there to disk. Open brings
// one back. Those who make data on the device call MakeRoomFor, so that it never has more
// than the limit and what they have just made.
//
// # When the disk is full
//
// What cannot be written stays in memory, and the error says what to do. MakeRoom returns it
// to those whose data would not fit into memory either: their task can run elsewhere.
//
// # Files
//
// Each value is a file with magic, version and checksums. They are in a directory of the
// store's own below Config.Dir, made when it is needed and removed by Close; what a killed
// process has left there is removed by the next store that needs one.
package store
