package cuda

// Watching reports whether some stream has work that holds buffers.
func Watching() bool {
	watcher.Lock()
	defer watcher.Unlock()
	return watcher.running
}
