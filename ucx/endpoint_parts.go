package ucx

// endpointPart is what the layers above hang on an endpoint: queues of arrived messages.
type endpointPart interface {
	// ended says that nothing more will come, and why. What has arrived can still be
	// taken. The token may be held: it must not block or call into UCX.
	ended(reason error)
	// discard gives back what nobody took. The token is not held.
	discard()
}

// addPart hangs a part on the endpoint. If it has ended, the part hears of it at once.
func (ep *Endpoint) addPart(p endpointPart) {
	ep.mu.Lock()
	ep.parts = append(ep.parts, p)
	over := ep.state.Ended()
	ep.mu.Unlock()
	if over {
		p.ended(ep.reason())
	}
}

func (ep *Endpoint) discardParts() {
	ep.mu.Lock()
	parts := ep.parts
	ep.parts = nil
	ep.mu.Unlock()
	for _, p := range parts {
		p.discard()
	}
}
