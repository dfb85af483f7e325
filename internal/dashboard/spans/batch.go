package spans

// kinds of records
const (
	taskRecord uint8 = iota
	partRecord
	transferRecord
	diskRecord
	pausedRecord
	waitRecord
	placedRecord // has a row: worker is its id
)

// record is a span before it has a row.
type record struct {
	start, stop int64 // ns of Unix time
	bytes       int64
	thread      int64  // of a task; number of keys of a transfer
	worker      uint32 // by Store.Worker
	peer        uint32 // by Store.Worker
	transport   uint32 // by Store.Transport
	keyLen      uint32
	kind        uint8
	category    uint8
	flags       uint8
}

const (
	maxBatch = 1 << 16 // records
	maxKeys  = 8 << 20 // bytes of keys in a batch
	maxKey   = 8 << 10 // bytes
	noWorker = 1<<32 - 1
)

// NoPeer is the peer of spans that have none.
const NoPeer uint32 = noWorker

// Batch collects spans without locks, and without an allocation per span once it has grown. It has one user at a time:
// the goroutine that fills it, until Store.Put takes it. The zero value is an empty batch. A batch is bounded; spans
// that do not fit are counted as dropped.
type Batch struct {
	records []record
	keys    []byte
	dropped int64
}

// Len returns the number of spans.
func (b *Batch) Len() int { return len(b.records) }

func (b *Batch) reset() {
	b.records, b.keys, b.dropped = b.records[:0], b.keys[:0], 0
}

func (b *Batch) fits(key []byte) bool {
	if len(b.records) < maxBatch && len(key) <= maxKey && len(b.keys)+len(key) <= maxKeys {
		return true
	}
	b.dropped++
	return false
}

// Task adds the execution of a task by a thread of a worker. start and stop are Unix times in nanoseconds, nbytes is
// the size of the result. flags is 0 or FlagError.
func (b *Batch) Task(worker uint32, thread int64, key []byte, prefix uint32, start, stop, nbytes int64, flags uint8) {
	if !b.fits(key) {
		return
	}
	category := uint8(prefix)
	switch {
	case flags&FlagError != 0:
		category = Failed
	case prefix < uint32(FirstPrefix) || prefix > uint32(Others):
		category = Others
	}
	b.keys = append(b.keys, key...)
	b.records = append(b.records, record{start: start, stop: stop, bytes: nbytes, thread: thread, worker: worker,
		keyLen: uint32(len(key)), kind: taskRecord, category: category, flags: flags & FlagError})
}

// Part adds what a thread of a worker did for a task other than to execute it: a category from Transfer to Deserialize.
func (b *Batch) Part(worker uint32, thread int64, key []byte, action uint8, start, stop int64) {
	if action < Transfer || action > Deserialize {
		b.dropped++
		return
	}
	if !b.fits(key) {
		return
	}
	b.keys = append(b.keys, key...)
	b.records = append(b.records, record{start: start, stop: stop, thread: thread, worker: worker,
		keyLen: uint32(len(key)), kind: partRecord, category: action})
}

// Wait adds a time in which a task was not executed because something was missing: Waiting, Paused or WaitingSlot. Only
// the part in which its thread was idle is kept, so it must be added before the task itself.
func (b *Batch) Wait(worker uint32, thread int64, key []byte, reason uint8, start, stop int64) {
	if reason != Waiting && reason != Paused && reason != WaitingSlot {
		b.dropped++
		return
	}
	if !b.fits(key) {
		return
	}
	b.keys = append(b.keys, key...)
	b.records = append(b.records, record{start: start, stop: stop, thread: thread, worker: worker,
		keyLen: uint32(len(key)), kind: waitRecord, category: reason})
}

// Transfer adds a transfer of results between a worker and its peer.
func (b *Batch) Transfer(worker, peer uint32, incoming bool, transport uint32, bytes, keys, start, stop int64) {
	if !b.fits(nil) {
		return
	}
	r := record{start: start, stop: stop, bytes: bytes, thread: keys, worker: worker, peer: peer,
		transport: transport, kind: transferRecord, category: Transfer}
	if incoming {
		r.flags = FlagIncoming
	}
	b.records = append(b.records, r)
}

// Disk adds the write of a result to the disk of a worker, or its read.
func (b *Batch) Disk(worker uint32, key []byte, write bool, bytes, start, stop int64) {
	if !b.fits(key) {
		return
	}
	r := record{start: start, stop: stop, bytes: bytes, worker: worker, keyLen: uint32(len(key)), kind: diskRecord,
		category: DiskRead}
	if write {
		r.category = DiskWrite
	}
	b.keys = append(b.keys, key...)
	b.records = append(b.records, r)
}

// Paused adds a time in which a worker was paused.
func (b *Batch) Paused(worker uint32, start, stop int64) {
	if !b.fits(nil) {
		return
	}
	b.records = append(b.records, record{start: start, stop: stop, worker: worker, kind: pausedRecord,
		category: Paused})
}

// Add adds a span that has a row, as Store.AddRow returns it, for imports. Texts of the span do not matter: peer and
// transport are ids as of Transfer. start and stop are Unix times in nanoseconds.
func (b *Batch) Add(sp *Span, peer, transport uint32, start, stop int64) {
	if len(sp.Key) > maxKey || len(b.records) >= maxBatch || len(b.keys)+len(sp.Key) > maxKeys {
		b.dropped++
		return
	}
	b.keys = append(b.keys, sp.Key...)
	b.records = append(b.records, record{start: start, stop: stop, bytes: sp.Bytes, thread: sp.Keys, worker: sp.Row,
		peer: peer, transport: transport, keyLen: uint32(len(sp.Key)), kind: placedRecord, category: sp.Category,
		flags: sp.Flags & (FlagError | FlagIncoming)})
}
