"""Serves the live page: tables, their LSM trees and snapshots, and actions that need a token."""
