package ucxcomm

import (
	"maps"

	"go.millstream.dev/config"
)

// FromConfig returns the settings of UCX comms from those that package config has read from Dask's files and variables:
//
//	cfg, err := config.Default()
//	s, err := cfg.Settings(config.Overrides{})
//	network := ucxcomm.NewNetwork(ucxcomm.FromConfig(s))
func FromConfig(s *config.Settings) Settings {
	return Settings{
		Options: maps.Clone(s.Options), Library: s.UCX.Library,
		MultiBuffer: s.UCX.MultiBuffer == config.On, PlainTransports: s.UCX.PlainTransports == config.On,
		Polling: s.UCX.Polling == config.On,
	}
}
