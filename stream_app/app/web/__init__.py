"""Serves the live page: tables, their LSM trees and snapshots in a browser; reads only."""
