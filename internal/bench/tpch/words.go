package tpch

import "strings"

// Words of the specification. Names of parts have five colors, so the lists need not be complete.
var (
	regions = []string{"AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"}
	nations = []struct {
		name   string
		region int64
	}{
		{"ALGERIA", 0}, {"ARGENTINA", 1}, {"BRAZIL", 1}, {"CANADA", 1}, {"EGYPT", 4}, {"ETHIOPIA", 0}, {"FRANCE", 3},
		{"GERMANY", 3}, {"INDIA", 2}, {"INDONESIA", 2}, {"IRAN", 4}, {"IRAQ", 4}, {"JAPAN", 2}, {"JORDAN", 4},
		{"KENYA", 0}, {"MOROCCO", 0}, {"MOZAMBIQUE", 0}, {"PERU", 1}, {"CHINA", 2}, {"ROMANIA", 3},
		{"SAUDI ARABIA", 4}, {"VIETNAM", 2}, {"RUSSIA", 3}, {"UNITED KINGDOM", 3}, {"UNITED STATES", 1},
	}
	colors = strings.Fields("almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood " +
		"chartreuse chiffon chocolate coral cornflower cream cyan dark deep dim dodger drab firebrick floral forest " +
		"frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light " +
		"lime linen magenta maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale")
	types1      = strings.Fields("STANDARD SMALL MEDIUM LARGE ECONOMY PROMO")
	types2      = strings.Fields("ANODIZED BURNISHED PLATED POLISHED BRUSHED")
	types3      = strings.Fields("TIN NICKEL BRASS STEEL COPPER")
	containers1 = strings.Fields("SM LG MED JUMBO WRAP")
	containers2 = strings.Fields("CASE BOX BAG JAR PKG PACK CAN DRUM")
	segments    = strings.Fields("AUTOMOBILE BUILDING FURNITURE MACHINERY HOUSEHOLD")
	priorities  = []string{"1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"}
	instructs   = []string{"DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"}
	modes       = []string{"REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"}
	boxes       = strings.Fields("CASE BOX PACK PKG")
	bags        = strings.Fields("BAG BOX PKG PACK")
	words       = strings.Fields("furiously quickly carefully slyly blithely pending final ironic express bold " +
		"regular even silent unusual packages deposits accounts requests theodolites instructions foxes pinto beans " +
		"platelets sleep wake haggle nag cajole detect boost across above along the of")
)

// rng is a generator of random numbers (splitmix64) that is made for each row, so that rows do not depend on others.
type rng struct{ state uint64 }

// row returns the generator of a row of a table.
func row(table, key int64) rng {
	r := rng{uint64(table)<<56 ^ uint64(key)*0x9e3779b97f4a7c15 ^ 0x5851f42d4c957f2d}
	r.next()
	return r
}

func (r *rng) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// between returns a number from low to high, both included.
func (r *rng) between(low, high int64) int64 { return low + int64(r.next()%uint64(high-low+1)) }

func (r *rng) pick(list []string) string { return list[r.next()%uint64(len(list))] }

// text returns a sentence of some words.
func (r *rng) text(least, most int64) string {
	var b strings.Builder
	for i := r.between(least, most); i > 0; i-- {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(r.pick(words))
	}
	return b.String()
}
