//go:build !race

package ucx

func (w *Worker) raceAcquire() {}
func (w *Worker) raceRelease() {}
func raceSent()                {}
func raceReceived()            {}
