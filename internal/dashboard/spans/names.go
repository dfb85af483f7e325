package spans

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Kinds of rows.
const (
	ThreadRow   = "thread"
	TransferRow = "transfer"
	DiskRow     = "disk" // slot 0: reads and writes, slot 1: paused
)

// Row is a line of the task stream. Its id is its index in Rows.
type Row struct {
	ID     uint32 `json:"id"`
	Worker string `json:"worker"`
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Slot   int    `json:"slot"`
}

// Bounds of names, which workers choose.
const (
	maxWorkers    = 1 << 16
	maxRows       = 1 << 18
	maxThreads    = 1 << 10 // of a worker; further threads share the last row
	transferSlots = 8
	maxTransports = 1 << 10
	maxText       = 256 // bytes of an address or a name
)

var rowKinds = [...]string{ThreadRow, TransferRow, DiskRow}

const (
	threadKind uint8 = iota
	transferKind
	diskKind
)

// row is a Row without its texts.
type row struct {
	busy   int64 // of a thread: end of its last span, in ns since 1970
	worker uint32
	slot   uint32
	kind   uint8
}

// worker is the state of a worker: its rows, by kind and slot.
type worker struct {
	address, name string
	threads       []thread         // linear up to manyThreads
	byThread      map[int64]uint32 // ident to row, beyond
	slots         [transferSlots]slot
	disk          [2]slot
}

type thread struct {
	ident int64
	row   uint32
}

// slot is a row that exists once it has been used.
type slot struct {
	used bool
	row  uint32
	busy int64 // end of its last span
}

const manyThreads = 16

// names interns workers, rows, categories and transports. All are dense, bounded and stable.
type names struct {
	mu         sync.RWMutex
	workers    []*worker
	byAddress  map[string]uint32
	rows       []row
	prefixes   []string
	byPrefix   map[string]uint8
	transports []string
	byName     map[string]uint32
	horizon    int64
	logged     bool   // the history has a folder
	unsaved    []byte // records that are not on disk yet
}

func (n *names) init() {
	n.byAddress = make(map[string]uint32)
	n.byPrefix = make(map[string]uint8)
	n.byName = make(map[string]uint32)
}

// clip bounds a text from a peer.
func clip(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
		for len(text) > 0 && !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) {
			r, size := utf8.DecodeLastRuneInString(text)
			if r != utf8.RuneError || size != 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// Worker returns the id of the worker with an address. Its name is the first that is not empty. Beyond 65,536 workers
// it returns an id whose spans are dropped.
func (s *Store) Worker(address, name string) uint32 {
	return s.names.worker(clip(address), clip(name))
}

func (n *names) worker(address, name string) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, ok := n.byAddress[address]
	if ok {
		if w := n.workers[id]; w.name == "" && name != "" {
			w.name = name
			n.note(workerName, address, name)
		}
		return id
	}
	if len(n.workers) >= maxWorkers {
		return noWorker
	}
	id = uint32(len(n.workers))
	n.byAddress[address] = id
	n.workers = append(n.workers, &worker{address: address, name: name})
	n.note(workerName, address, name)
	return id
}

// Prefix returns the category of tasks with a prefix, Others when all categories are in use.
func (s *Store) Prefix(name string) uint32 {
	return uint32(s.names.prefix(clip(name)))
}

func (n *names) prefix(name string) uint8 {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, ok := n.byPrefix[name]
	if ok {
		return c
	}
	if len(n.prefixes) >= int(Others-FirstPrefix) || name == othersName {
		return Others
	}
	c = FirstPrefix + uint8(len(n.prefixes))
	n.byPrefix[name] = c
	n.prefixes = append(n.prefixes, name)
	n.note(prefixName, name)
	return c
}

// Transport returns the id of a transport. Beyond 1,024 all are "(others)".
func (s *Store) Transport(name string) uint32 {
	return s.names.transport(clip(name))
}

func (n *names) transport(name string) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, ok := n.byName[name]
	if ok {
		return id
	}
	if len(n.transports) >= maxTransports {
		return maxTransports
	}
	id = uint32(len(n.transports))
	n.byName[name] = id
	n.transports = append(n.transports, name)
	n.note(transportName, name)
	return id
}

// transportName returns the name of a transport; n.mu is held.
func (n *names) transportName(id uint32) string {
	if int64(id) < int64(len(n.transports)) {
		return n.transports[id]
	}
	return othersName
}

// address returns the address of a worker, "" if there is none; n.mu is held.
func (n *names) address(worker uint32) string {
	if int64(worker) < int64(len(n.workers)) {
		return n.workers[worker].address
	}
	return ""
}

func (n *names) counts() (rows, categories int) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.rows), len(n.categories())
}

// categories returns the names of the categories; n.mu is held.
func (n *names) categories() []string {
	list := slices.Concat(fixedNames[:], n.prefixes)
	if len(list) == int(Others) {
		list = append(list, othersName)
	}
	return list
}

// Names returns the names of the categories. Others has a name when all other categories are in use.
func (s *Store) Names() []string {
	s.names.mu.RLock()
	defer s.names.mu.RUnlock()
	return s.names.categories()
}

// Rows returns the rows in order of their ids.
func (s *Store) Rows() []Row {
	n := &s.names
	n.mu.RLock()
	defer n.mu.RUnlock()
	list := make([]Row, len(n.rows))
	for i, r := range n.rows {
		w := n.workers[r.worker]
		list[i] = Row{ID: uint32(i), Worker: w.address, Name: w.name, Kind: rowKinds[r.kind], Slot: int(r.slot)}
	}
	return list
}

// AddRow returns the id of a row by its worker, kind and slot, for imports; slots of threads must be asked for in
// ascending order. It reports whether there is such a row.
func (s *Store) AddRow(r Row) (uint32, bool) {
	worker := s.Worker(r.Worker, r.Name)
	kind := slices.Index(rowKinds[:], r.Kind)
	n := &s.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if worker == noWorker || kind < 0 || r.Slot < 0 {
		return 0, false
	}
	w := n.workers[worker]
	switch {
	case kind == int(threadKind) && r.Slot < len(w.threads):
		return w.threads[r.Slot].row, true
	case kind == int(transferKind) && r.Slot < transferSlots && w.slots[r.Slot].used:
		return w.slots[r.Slot].row, true
	case kind == int(diskKind) && r.Slot < len(w.disk) && w.disk[r.Slot].used:
		return w.disk[r.Slot].row, true
	}
	id := uint32(len(n.rows))
	return id, n.loadRow(int64(worker), int64(kind), int64(r.Slot), int64(r.Slot))
}

// newRow adds a row; n.mu is held.
func (n *names) newRow(worker uint32, kind uint8, slot int, ident int64) (uint32, bool) {
	if len(n.rows) >= maxRows {
		return 0, false
	}
	id := uint32(len(n.rows))
	n.rows = append(n.rows, row{worker: worker, slot: uint32(slot), kind: kind})
	n.note(rowName, int64(worker), int64(kind), int64(slot), ident)
	return id, true
}

// rowOf returns the row of a record; n.mu is held.
func (n *names) rowOf(r *record) (uint32, bool) {
	if r.kind == placedRecord {
		return r.worker, int64(r.worker) < int64(len(n.rows)) && r.category != None
	}
	if int64(r.worker) >= int64(len(n.workers)) {
		return 0, false
	}
	w := n.workers[r.worker]
	switch r.kind {
	case taskRecord, partRecord, waitRecord:
		id, ok := n.threadRow(w, r)
		if ok {
			busy := &n.rows[id].busy
			if r.kind == waitRecord {
				r.start = max(r.start, *busy)
			}
			*busy = max(*busy, r.stop)
		}
		return id, ok
	case transferRecord:
		return n.transferRow(w, r)
	}
	i := 0
	if r.kind == pausedRecord {
		i = 1
	}
	return n.slotRow(&w.disk[i], r, diskKind, i)
}

func (n *names) threadRow(w *worker, r *record) (uint32, bool) {
	for i := range w.threads[:min(len(w.threads), manyThreads)] {
		if w.threads[i].ident == r.thread {
			return w.threads[i].row, true
		}
	}
	if id, ok := w.byThread[r.thread]; ok {
		return id, true
	}
	if len(w.threads) >= maxThreads {
		return w.threads[maxThreads-1].row, true
	}
	id, ok := n.newRow(r.worker, threadKind, len(w.threads), r.thread)
	if !ok {
		return 0, false
	}
	w.addThread(r.thread, id)
	return id, true
}

func (w *worker) addThread(ident int64, row uint32) {
	w.threads = append(w.threads, thread{ident, row})
	if len(w.threads) > manyThreads {
		if w.byThread == nil {
			w.byThread = make(map[int64]uint32)
		}
		w.byThread[ident] = row
	}
}

// transferRow returns the first row of the worker that is free when the transfer starts, the last if none is.
func (n *names) transferRow(w *worker, r *record) (uint32, bool) {
	for i := range w.slots {
		sl := &w.slots[i]
		if !sl.used || sl.busy <= r.start || i == transferSlots-1 {
			return n.slotRow(sl, r, transferKind, i)
		}
	}
	return 0, false
}

func (n *names) slotRow(sl *slot, r *record, kind uint8, i int) (uint32, bool) {
	if !sl.used {
		id, ok := n.newRow(r.worker, kind, i, 0)
		if !ok {
			return 0, false
		}
		sl.used, sl.row = true, id
	}
	sl.busy = max(sl.busy, r.stop)
	return sl.row, true
}
