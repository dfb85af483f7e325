package scheduler

// DashboardAddress returns the host:port at which a browser reaches the HTTP server; ""
// without one.
func (s *Scheduler) DashboardAddress() string {
	return s.inspect.Address()
}
