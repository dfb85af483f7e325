package cuda

// Watching reports whether some stream has work that holds buffers.
func Watching() bool {
	watcher.Lock()
	defer watcher.Unlock()
	return watcher.running
}

// SpareEvents returns how many native events of a device wait to be used again.
func SpareEvents(device int) int {
	spare.Lock()
	defer spare.Unlock()
	return len(spare.plain[device])
}
