package tpch

import (
	"fmt"
	"strings"
)

// Numbers of the tables, for the generators of their rows.
const (
	supplierRows = iota + 1
	partRows
	partSuppRows
	customerRows
	orderRows
)

func addRegion(b *rows, i int64) { b.put(i, regions[i], "region "+strings.ToLower(regions[i])) }

func addNation(b *rows, i int64) {
	b.put(i, nations[i].name, nations[i].region, "nation "+strings.ToLower(nations[i].name))
}

// phone returns a telephone number whose first digits are those of the nation.
func (r *rng) phone(nation int64) string {
	return fmt.Sprintf("%d-%03d-%03d-%04d", nation+10, r.between(100, 999), r.between(100, 999), r.between(1000, 9999))
}

func (s Scale) addSupplier(b *rows, i int64) {
	r := row(supplierRows, i)
	nation := i % int64(len(nations)) // every nation has suppliers
	comment := r.text(5, 12)
	switch i % 40 {
	case 7:
		comment += " Customer " + r.pick(words) + " Complaints"
	case 27:
		comment += " Customer " + r.pick(words) + " Recommends"
	}
	b.put(i+1, fmt.Sprintf("Supplier#%09d", i+1), r.text(1, 3), nation, r.phone(nation),
		r.between(-99999, 999999), comment)
}

// price returns the price of a part in cents.
func price(part int64) int64 { return 90000 + part/10%20001 + 100*(part%1000) }

func (s Scale) addPart(b *rows, i int64) {
	r := row(partRows, i)
	var name []string
	for range 5 {
		name = append(name, r.pick(colors))
	}
	if i%60 == 0 {
		name[0] = "forest"
	}
	mfgr := r.between(1, 5)
	brand := fmt.Sprintf("Brand#%d%d", mfgr, r.between(1, 5))
	kind := r.pick(types1) + " " + r.pick(types2) + " " + r.pick(types3)
	size := r.between(1, 50)
	container := r.pick(containers1) + " " + r.pick(containers2)
	switch i % 50 { // some parts for the queries that look for few
	case 0:
		mfgr, brand, size, container = 1, "Brand#12", r.between(1, 5), "SM "+r.pick(boxes)
	case 10:
		mfgr, brand, size, container = 2, "Brand#23", r.between(1, 10), "MED "+r.pick(bags)
	case 20:
		mfgr, brand, size, container = 3, "Brand#34", r.between(1, 15), "LG "+r.pick(boxes)
	case 30:
		kind = "ECONOMY ANODIZED STEEL"
	case 40:
		kind, size = r.pick(types1)+" "+r.pick(types2)+" BRASS", 15
	}
	b.put(i+1, strings.Join(name, " "), fmt.Sprintf("Manufacturer#%d", mfgr), brand, kind, size, container, price(i+1),
		r.text(1, 4))
}

// supplierOf returns one of the four suppliers of a part.
func (s Scale) supplierOf(part, i int64) int64 {
	return (part+i*(s.suppliers/4+(part-1)/s.suppliers))%s.suppliers + 1
}

func (s Scale) addPartSupp(b *rows, i int64) {
	r := row(partSuppRows, i)
	for j := range int64(4) {
		b.put(i+1, s.supplierOf(i+1, j), r.between(1, 9999), r.between(100, 100000), r.text(3, 10))
	}
}

func (s Scale) addCustomer(b *rows, i int64) {
	r := row(customerRows, i)
	nation := r.between(0, int64(len(nations))-1)
	b.put(i+1, fmt.Sprintf("Customer#%09d", i+1), r.text(1, 3), nation, r.phone(nation), r.between(-99999, 999999),
		r.pick(segments), r.text(5, 15))
}

// line is a row of lineitem.
type line struct {
	part, supplier, quantity, price, discount, tax int64
	flag, status                                   string
	ship, commit, receipt                          int64
	instruct, mode, comment                        string
}

// order is a row of orders with its lines.
type order struct {
	key, customer, date, total int64
	status                     string
	priority, clerk, comment   string
	lines                      []line
}

var (
	firstOrder = date(1992, 1, 1)
	lastOrder  = date(1998, 8, 2)
	today      = date(1995, 6, 17)
)

// order returns an order. Keys have gaps, and a third of the customers has no orders.
func (s Scale) order(i int64) order {
	r := row(orderRows, i)
	o := order{key: i/8*32 + i%8 + 1, date: r.between(firstOrder, lastOrder), priority: r.pick(priorities),
		clerk: fmt.Sprintf("Clerk#%09d", r.between(1, max(1, s.orders/1000))), comment: r.text(4, 12)}
	for o.customer = r.between(1, s.customers); o.customer%3 == 0; {
		o.customer = r.between(1, s.customers)
	}
	if i%50 == 3 {
		o.comment += " special " + r.pick(words) + " requests"
	}
	n := r.between(1, 7)
	large := i%1000 == 11 // more than 300 pieces in all
	if large {
		n = 7
	}
	done := 0
	for range n {
		l := s.line(&r, o.date)
		if large {
			l.quantity = 4900
		}
		l.price = l.quantity / 100 * price(l.part)
		o.total += l.price * (100 - l.discount) * (100 + l.tax) / 10000
		if l.status == "F" {
			done++
		}
		o.lines = append(o.lines, l)
	}
	switch done {
	case len(o.lines):
		o.status = "F"
	case 0:
		o.status = "O"
	default:
		o.status = "P"
	}
	return o
}

// line returns a line without its price. Amounts are in hundredths.
func (s Scale) line(r *rng, ordered int64) line {
	l := line{part: r.between(1, s.parts), quantity: 100 * r.between(1, 50), discount: r.between(0, 10),
		tax: r.between(0, 8), ship: ordered + r.between(1, 121), commit: ordered + r.between(30, 90),
		instruct: r.pick(instructs), mode: r.pick(modes), comment: r.text(2, 6), flag: "N", status: "O"}
	l.supplier = s.supplierOf(l.part, r.between(0, 3))
	l.receipt = l.ship + r.between(1, 30)
	if l.receipt <= today {
		l.flag = r.pick([]string{"R", "A"})
	}
	if l.ship <= today {
		l.status = "F"
	}
	return l
}

func (s Scale) addOrder(b *rows, i int64) {
	o := s.order(i)
	b.put(o.key, o.customer, o.status, o.total, o.date, o.priority, o.clerk, int64(0), o.comment)
}

func (s Scale) addLines(b *rows, i int64) {
	o := s.order(i)
	for n, l := range o.lines {
		b.put(o.key, l.part, l.supplier, int64(n+1), l.quantity, l.price, l.discount, l.tax, l.flag, l.status, l.ship,
			l.commit, l.receipt, l.instruct, l.mode, l.comment)
	}
}
