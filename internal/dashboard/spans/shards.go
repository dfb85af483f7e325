package spans

import "sync"

// shards are pyramids for pages of rows, page i in shard i%pyramidShards, so that two processors paint.
type shards [pyramidShards]pyramid

const pyramidShards = 2

func shardOf(row uint32) int { return int(row/pageRows) % pyramidShards }

// paint adds the spans of a block of a class; latest is the end of the last one. size bounds the memory of all.
func (s *shards) paint(class int, o *outline, latest, size int64) {
	var wg sync.WaitGroup
	for i := range s {
		wg.Go(func() {
			s[i].paint(class, o, latest, i)
			s[i].trim(size / pyramidShards)
		})
	}
	wg.Wait()
	levels := 0
	for i := range s {
		levels = max(levels, len(s[i].levels))
	}
	for i := range s {
		for len(s[i].levels) < levels {
			s[i].grow()
		}
	}
}

// dropBefore removes what ended before a time.
func (s *shards) dropBefore(horizon int64) {
	for i := range s {
		s[i].dropBefore(horizon)
	}
}

// strips are the strips of a tile, one of each shard.
type strips struct {
	of    [pyramidShards]strip
	class int // spans of this class and below are in the strips
}

// strips returns the chunks for a tile, see pyramid.strip.
func (s *shards) strips(k tileKey, horizon int64) *strips {
	all := &strips{class: maxLevels}
	for i := range s {
		all.of[i] = s[i].strip(k, horizon)
		all.class = min(all.class, all.of[i].class)
	}
	if all.class < 0 { // evicted from one: none
		all.of = [pyramidShards]strip{}
	}
	return all
}

// row returns the strip that has a row.
func (s *strips) row(row uint32) *strip { return &s.of[shardOf(row)] }
