package state

import "sort"

// WorkersToClose proposes workers that the cluster can do without: idle ones whose data the others can
// hold ratio times over (Dask's workers_to_close and its memory_ratio); 0 means the default, 2. n > 0 asks for so
// many, n = 0 for as many as can go; minimum workers stay in any case.
func (s *State) WorkersToClose(n, minimum int, ratio float64) []WorkerID {
	if ratio == 0 {
		ratio = 2
	}
	if n <= 0 && s.counts[Queued]+s.counts[NoWorkerState] > 0 {
		return nil
	}
	var limit, used int64
	all := make([]*Worker, 0, s.numWorkers)
	for w := range s.Workers() {
		limit += w.memoryLimit
		used += w.nbytes
		all = append(all, w)
	}
	sort.SliceStable(all, func(i, j int) bool {
		if a, b := all[i].processing > 0, all[j].processing > 0; a != b {
			return b
		}
		return all[i].nbytes < all[j].nbytes
	})
	var ids []WorkerID
	remaining := len(all)
	for _, w := range all {
		if remaining <= minimum || n > 0 && len(ids) >= n {
			break
		}
		if n <= 0 {
			limit -= w.memoryLimit
			if w.processing > 0 || used > 0 && float64(limit) < ratio*float64(used) {
				break
			}
		}
		ids = append(ids, w.id)
		remaining--
	}
	return ids
}
