package lloydfit

// mt19937 is the generator of numpy's RandomState, the Mersenne twister of 19937 bits, so that a seed gives the centers
// of scikit-learn.
type mt19937 struct {
	state [624]uint32
	at    int
}

func newMT19937(seed uint32) *mt19937 {
	m := &mt19937{at: 624}
	for i := range m.state {
		m.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	return m
}

func (m *mt19937) next() uint32 {
	if m.at == len(m.state) {
		for i := range m.state {
			y := m.state[i]&0x80000000 | m.state[(i+1)%624]&0x7fffffff
			v := m.state[(i+397)%624] ^ y>>1
			if y&1 != 0 {
				v ^= 0x9908b0df
			}
			m.state[i] = v
		}
		m.at = 0
	}
	y := m.state[m.at]
	m.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// float implements numpy's random_sample: 53 bits between 0 and 1.
func (m *mt19937) float() float64 {
	a, b := m.next()>>5, m.next()>>6
	return (float64(a)*67108864 + float64(b)) / 9007199254740992
}
