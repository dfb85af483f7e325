package state

// SetEpoch replaces Config.Epoch: the owner of a journal learns the number of its life only when it has read
// the journal, and so after the state was made. It is called before the first task runs.
func (s *State) SetEpoch(epoch uint32) { s.cfg.Epoch = epoch }
