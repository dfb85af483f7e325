package expr

import (
	"fmt"
	"math/big"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

func refText(t arrow.DataType, v any) string {
	switch x := v.(type) {
	case bool:
		return fmt.Sprint(x)
	case float64:
		bits := 64
		if t.ID() == arrow.FLOAT32 {
			bits = 32
		}
		return string(appendFloat(nil, x, bits))
	}
	x := v.(*big.Int)
	switch classOf(t) {
	case decimal:
		return refRat(t, v).FloatString(int(scaleOf(t)))
	case date:
		return time.Unix(x.Int64()*(secondsPerDay/unitsPerDay(t)), 0).UTC().Format("2006-01-02")
	case timestamp:
		return refClock(t, x).Format("2006-01-02 15:04:05.999999999")
	}
	return x.String()
}

func refClock(t arrow.DataType, v *big.Int) time.Time {
	days, rest := new(big.Int).DivMod(v, big.NewInt(unitsPerDay(t)), new(big.Int))
	nanos := rest.Int64() * (secondsPerDay * 1e9 / unitsPerDay(t))
	return time.Unix(days.Int64()*secondsPerDay, nanos).UTC()
}

func refTime(n *node, args []any) (any, error) {
	at := refClock(n.args[0].t, args[0].(*big.Int))
	perDay := big.NewInt(unitsPerDay(n.args[0].t))
	units := func(at time.Time) (any, error) {
		ns := new(big.Int).Mul(big.NewInt(at.Unix()), big.NewInt(1e9))
		ns.Add(ns, big.NewInt(int64(at.Nanosecond())))
		return refInt(n.t, ns.Div(ns.Mul(ns, perDay), big.NewInt(secondsPerDay*1e9)))
	}
	midnight := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	start := func(at time.Time, unit string) time.Time {
		y, m, d := at.Date()
		switch unit {
		case "year":
			return midnight(y, 1, 1)
		case "quarter":
			return midnight(y, (m-1)/3*3+1, 1)
		case "month":
			return midnight(y, m, 1)
		case "week":
			return midnight(y, m, d-(int(at.Weekday())+6)%7)
		case "day":
			return midnight(y, m, d)
		}
		return at.Truncate(map[string]time.Duration{"hour": time.Hour, "minute": time.Minute,
			"second": time.Second}[unit])
	}
	number := map[Op]int{OpYear: at.Year(), OpQuarter: (int(at.Month()) + 2) / 3, OpMonth: int(at.Month()),
		OpDay:  at.Day(),
		OpHour: at.Hour(), OpMinute: at.Minute(), OpSecond: at.Second(), OpDayOfWeek: int(at.Weekday()),
		OpDayOfYear: at.YearDay()}
	switch n.op {
	case OpTruncate:
		return units(start(at, n.unit))
	case OpAddDays:
		return refInt(n.t, new(big.Int).Add(args[0].(*big.Int), new(big.Int).Mul(args[1].(*big.Int), perDay)))
	case OpAddMonths:
		by := args[1].(*big.Int)
		if by.CmpAbs(big.NewInt(1<<31)) > 0 {
			return nil, errRow
		}
		first := midnight(at.Year(), at.Month()+time.Month(by.Int64()), 1)
		day := min(at.Day(), first.AddDate(0, 1, -1).Day())
		clock := at.Sub(midnight(at.Date()))
		return units(first.AddDate(0, 0, day-1).Add(clock))
	case OpDateDiff:
		b, a := start(at, n.unit), start(refClock(n.args[1].t, args[1].(*big.Int)), n.unit)
		switch n.unit {
		case "year":
			return big.NewInt(int64(b.Year() - a.Year())), nil
		case "quarter":
			return big.NewInt(int64(b.Year()*4 + int(b.Month())/3 - a.Year()*4 - int(a.Month())/3)), nil
		case "month":
			return big.NewInt(int64(b.Year()*12 + int(b.Month()) - a.Year()*12 - int(a.Month()))), nil
		}
		seconds := map[string]int64{"week": 7 * secondsPerDay, "day": secondsPerDay, "hour": 3600, "minute": 60,
			"second": 1}
		return big.NewInt((b.Unix() - a.Unix()) / seconds[n.unit]), nil
	}
	v, ok := number[n.op]
	if !ok {
		return nil, fmt.Errorf("no reference of %s", n.op)
	}
	return big.NewInt(int64(v)), nil
}
