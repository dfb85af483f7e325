module go.millstream.dev

go 1.26
