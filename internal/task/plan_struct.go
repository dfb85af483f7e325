package task

import (
	"reflect"
	"sync"
)

// field is a field of a struct that is sent.
type field struct {
	index int
	name  string
	plan  *plan
}

var structFields sync.Map // reflect.Type to func() ([]field, error)

// fieldsOf returns the fields of a struct that are sent: exported ones without the tag `task:"-"`. An unexported field
// is an error, as it can neither be read nor set.
func fieldsOf(t reflect.Type) ([]field, error) {
	f, ok := structFields.Load(t)
	if !ok {
		f, _ = structFields.LoadOrStore(t, sync.OnceValues(func() ([]field, error) { return listFields(t) }))
	}
	return f.(func() ([]field, error))()
}

func listFields(t reflect.Type) ([]field, error) {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("task")
		if tag == "-" {
			continue
		}
		if !f.IsExported() {
			return nil, &EncodeError{Type: t, Path: "." + f.Name,
				Reason: "the field is not exported; export it, omit it with the tag `task:\"-\"`, or give the " +
					"type MarshalBinary and UnmarshalBinary"}
		}
		name := f.Name
		if tag != "" {
			name = tag
		}
		out = append(out, field{i, name, planOf(f.Type)})
	}
	return out, nil
}

func structPlan(t reflect.Type) (func(*Builder, reflect.Value) error, func(*reader, reflect.Value) error) {
	return func(b *Builder, v reflect.Value) error {
			all, err := fieldsOf(t)
			if err != nil {
				return err
			}
			if err := b.descend(t); err != nil {
				return err
			}
			for _, f := range all {
				if err := f.plan.append(b, v.Field(f.index)); err != nil {
					return inPath(err, "."+f.name)
				}
			}
			b.depth--
			return nil
		}, func(r *reader, v reflect.Value) error {
			all, err := fieldsOf(t)
			if err != nil {
				return err
			}
			if err := r.descend(); err != nil {
				return err
			}
			for _, f := range all {
				if err := f.plan.read(r, v.Field(f.index)); err != nil {
					return inPath(err, "."+f.name)
				}
			}
			r.depth--
			return nil
		}
}
