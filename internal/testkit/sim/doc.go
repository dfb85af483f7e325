// Package sim is a network in memory for tests of what stands on comm: named hosts,
// addresses such as sim://worker-1:8786, latency, bandwidth, and everything that goes
// wrong between machines.
//
//	net := sim.New(sim.Config{Seed: 1, Latency: time.Millisecond})
//	l, _ := net.Host("scheduler").Listen(ctx, "sim://scheduler:8786", comm.ListenConfig{})
//	c, _ := net.Host("worker").Dial(ctx, "sim://scheduler:8786", comm.DialConfig{})
//	net.Partition("worker", "scheduler")
//
// Each host is a comm.Network of its own: a server is given the one of the host that it
// runs on. Messages are handed over without a copy, in order, after the time that the
// link between the two hosts takes.
//
// # Time
//
// All waiting is done by package time, so that inside a testing/synctest bubble it is
// virtual and costs nothing. The network has no goroutine of its own: nothing has to be
// closed for a bubble to end.
//
// What looks random (jitter, whether the writer of a lost message learns of it) is a pure
// function of the seed, the link and the count of messages on the connection, never of
// the order in which goroutines happened to run. With Config.Deterministic every event
// also has an instant of virtual time of its own: as a bubble's clock stands still until
// all its goroutines are blocked, the effects of one event have settled before the next
// one happens, and a run is repeated by its seed.
//
// # Faults
//
// Partition, PartitionOneWay and Heal cut links as a switch does: nothing is lost, all is
// late, and a connection that stays cut for Config.Timeout ends. Drop resets connections,
// DropAfter does it in the middle of a message. Refuse, Stall, Resume, Kill, Crash and
// Revive are the lives of hosts; SetLink makes a link slow (a slow loris is a link of a
// few bytes a second), HalfOpen is a peer that connects and says nothing.
package sim
