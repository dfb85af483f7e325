package commaddr_test

import (
	"fmt"

	"go.millstream.dev/internal/comm/commaddr"
)

func ExampleParse() {
	fmt.Println(commaddr.Parse("tls://10.0.0.1:8786"))
	fmt.Println(commaddr.Parse("10.0.0.1:8786"))
	// Output:
	// tls 10.0.0.1:8786
	// tcp 10.0.0.1:8786
}

func ExampleForListener() {
	// --host ::1 --port 9000:9100
	fmt.Println(commaddr.ForListener("", "::1", "9000:9100", "", 8786))
	// Output: tcp://[::1]:9000:9100 <nil>
}
