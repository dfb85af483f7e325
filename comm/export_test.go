package comm

// For tests of this folder.
const DefaultStripes = defaultStripes

var ParseStagedMode = parseStagedMode
